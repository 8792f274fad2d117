"""Results as they come back from a visit: JSON files, or archives of them."""

import json
import os
import tarfile


def results(paths):
    """[(name, content)] of JSON files and of all *.json in archives (*.tar.gz), whose names begin with the archive's."""
    found = []
    for path in paths:
        if path.endswith((".tar.gz", ".tgz")):
            label = os.path.basename(os.path.dirname(os.path.abspath(path)))
            with tarfile.open(path) as tar:
                for member in sorted((m for m in tar if m.isfile() and m.name.endswith(".json")), key=lambda m: (m.mtime, m.name)):
                    found.append((f"{label}/{member.name}", json.load(tar.extractfile(member))))
        else:
            with open(path, encoding="utf-8") as text:
                found += parts(os.path.basename(path), json.load(text))
    return found


def parts(name, content):
    """A series of visits (docs/measurements, format prism-gpu-visits) is the results of all their jobs, oldest first."""
    if not (isinstance(content, dict) and content.get("format") == "prism-gpu-visits"):
        return [(name, content)]
    return [(f"{name}, {job}", result) for visit in content["visits"] for job, result in visit.items()
            if isinstance(result, dict) and "format" in result]


def of_format(files, name):
    return [(n, c) for n, c in files if isinstance(c, dict) and c.get("format") == name]
