"""The command line `flip27`: one package for each group of commands.

Open `app` first. A command asks a package that programs can use too, gives an `Answer` back, and `rendering`
prints it: no command prints by itself, and no command holds what a program could not do.
"""
