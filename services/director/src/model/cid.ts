import { InvalidStateError, quoted } from "@diskmesh/domain";

const MAX_CID_LENGTH = 255;

/**
 * Checks an id that a CPI gave. Infrastructures choose them freely, but agents make file names of them: one that is
 * none, e.g. with a slash, would escape their folder.
 */
export function checkCid(what: "vm" | "disk", cid: string): string {
  if (isFileName(cid)) return cid;
  throw new InvalidStateError(
    `the CPI gave the ${what} id ${quoted(cid)}, which is no file name: see that the CPI is right`,
  );
}

/** Whether it can be the id of a vm or disk. */
export function isFileName(cid: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  return cid !== "" && cid.length <= MAX_CID_LENGTH && !/[/\x00-\x1f\x7f]/.test(cid) && cid !== "." && cid !== "..";
}
