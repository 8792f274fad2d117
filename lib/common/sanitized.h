/* sanitized.h - which sanitizers this is built with, 1 or 0: gcc has macros for it, clang has features. */
#ifndef PRISM_COMMON_SANITIZED_H
#define PRISM_COMMON_SANITIZED_H

#ifndef __has_feature
#define SANITIZED_FEATURE(name) 0
#else
#define SANITIZED_FEATURE(name) __has_feature(name)
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZED_FEATURE(address_sanitizer)
#define SANITIZED_ADDRESS 1
#else
#define SANITIZED_ADDRESS 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZED_FEATURE(thread_sanitizer)
#define SANITIZED_THREAD 1
#else
#define SANITIZED_THREAD 0
#endif

#endif
