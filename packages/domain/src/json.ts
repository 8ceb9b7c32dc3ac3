/**
 * Lists and objects inside each other, of any JSON from outside. Whoever walks over such a value may call itself for
 * each level; deeper ones could overflow the stack of a process.
 */
export const MAX_JSON_DEPTH = 64;
