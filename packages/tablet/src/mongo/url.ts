import { InvalidArgumentError } from "@diskmesh/domain";

/** Options whose values the tablet's protocol requires, by lower-case name. The URL may set only these values. */
const FIXED: Readonly<Record<string, string>> = {
  retrywrites: "false",
  retryreads: "false",
  w: "majority",
  j: "true",
  journal: "true",
  readconcernlevel: "majority",
  readpreference: "primary",
};

/**
 * Options that a URL must not set, because they would give up on operations, read from other members, or change
 * documents.
 */
const REFUSED: Readonly<Record<string, string>> = {
  connecttimeoutms: "diskmesh has its own",
  sockettimeoutms: "diskmesh has its own",
  maxpoolsize: "diskmesh has its own",
  maxconnecting: "diskmesh has its own",
  timeoutms: "diskmesh decides how long an operation may take",
  waitqueuetimeoutms: "diskmesh decides how long an operation may take",
  wtimeout: "diskmesh decides how long an operation may take",
  wtimeoutms: "diskmesh decides how long an operation may take",
  maxstalenessseconds: "diskmesh reads from the primary",
  readpreferencetags: "diskmesh reads from the primary",
  ...Object.fromEntries(
    [
      "bsonregexp",
      "checkkeys",
      "fieldsasraw",
      "forceserverobjectid",
      "ignoreundefined",
      "promotebuffers",
      "promotelongs",
      "promotevalues",
      "raw",
      "serializefunctions",
    ].map((name) => [name, "diskmesh decides how documents are stored"]),
  ),
};

/** Refuses URL options that diskmesh would have to override, and names them. Messages never contain a value. */
export function checkUrlOptions(url: string): void {
  for (const [name, value] of new URLSearchParams(url.split("?")[1] ?? "")) {
    const [fixed, reason] = [FIXED[name.toLowerCase()], REFUSED[name.toLowerCase()]];
    if (fixed !== undefined && value.toLowerCase() !== fixed)
      throw new InvalidArgumentError(
        `the address of MongoDB sets ${name}, but a tablet needs ${fixed}; remove ${name}`,
      );
    if (reason !== undefined)
      throw new InvalidArgumentError(`the address of MongoDB has the option ${name}, but ${reason}; remove the option`);
  }
}
