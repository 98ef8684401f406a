"""deploy/orders.py as a child of tests: python -m tests.deploy.watched_orders ARGUMENTS"""

from __future__ import annotations

from deploy.orders import main
from flip27_source.cli.demo.process import obey_parent

if __name__ == "__main__":
    obey_parent(lambda _: None)
    main()
