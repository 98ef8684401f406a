"""The files enumerator: finds new files in directories and assigns each file once.

Open `enumerator` first. `listing` finds files, `seen_files` decides which of them are new, and `cleaning`
archives or deletes files. What must not live here: the content of files, which belongs to `readers`.
"""
