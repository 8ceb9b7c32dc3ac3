/**
 * How this release lays out a store. 1, the first release: no incarnation, no checksums, no sums. A program refuses
 * stores of formats that it does not know, before it changes anything in them.
 */
export const STORE_FORMAT = 2;

/**
 * On a database a document of this table says the format: no program of the first release knows such a table, so it
 * refuses to load, also when it stood by while this one led.
 */
export const FORMAT_TABLE = "format";
export const FORMAT_KEY = "store";

/** In messages about a store that is not whole. */
export const CURE =
  "`diskmesh verify` names what is damaged; restore a backup into an empty store, or what `diskmesh salvage` saves; was the store only copied or dumped, do it again with the `backup` command, which is of one moment";

export function newerFormat(what: string, found: unknown): string {
  return `${what} was written by a newer diskmesh: it has format ${found}, this program knows no higher one than ${STORE_FORMAT}; run the newer one`;
}
