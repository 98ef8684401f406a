"""Moving in and out: files that another system has read become known files, and vice versa.

Open `known_files` first. `hadoop_uris` has the names that Hadoop gives to files. What must not live here: the
logs and lists of other systems, which belong to `snapshots` and the command line.
"""
