"""The files enumerator: finds new files in directories and assigns each file once.

Open `enumerator` first. `listing` finds files, `known` records the seen files, and `cleaning` archives or
deletes files. What must not live here: the content of files, which belongs to `readers`.
"""
