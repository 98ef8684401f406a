"""The files enumerator: new files of directories, each handed out once.

Open `enumerator` first; `listing` finds files, `known` says which were seen, `cleaning` archives and deletes.
What is in a file is for `readers`.
"""
