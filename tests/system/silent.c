/* silent.c - a program that never calls NCCL (built dynamic and static): says so and leaves with the code it is given. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    puts("nothing to reduce");
    return argc > 1 ? atoi(argv[1]) : 0;
}
