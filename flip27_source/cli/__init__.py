"""The command line `flip27`: one package for each group of commands.

Open `app` first. A command calls a package that programs can use too and returns an `Answer`, which
`rendering` prints: no command prints by itself, and programs can do everything that a command can do.
"""
