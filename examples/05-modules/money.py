# Money in whole cents, so that nothing is lost.
def cents(amount):
    return round(amount * 100)


def shown(amount):
    return f"{amount / 100:.2f}"
