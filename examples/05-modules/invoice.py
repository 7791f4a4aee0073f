# A module of the project's own. It imports what the policy admits, as the agent does.
from money import cents


def total(items):
    return sum(item["count"] * cents(item["price"]) for item in items)
