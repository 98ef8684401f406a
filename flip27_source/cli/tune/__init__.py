"""`flip27 tune`: makes Spark start its Python processes sooner. Open `command` first."""
