// Money in whole cents, so that nothing is lost.
export const cents = (amount) => Math.round(amount * 100);
export const shown = (amount) => (amount / 100).toFixed(2);
