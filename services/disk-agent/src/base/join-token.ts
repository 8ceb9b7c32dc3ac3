import { InvalidArgumentError } from "@diskmesh/domain";

export interface ParsedToken {
  readonly tokenId: string;
  readonly secret: string;
  /** SHA-256 of the certificate of the registry's authority, in hex. */
  readonly fingerprint: string;
}

const TOKEN = /^dmj1\.([0-9a-f]{12})\.([A-Za-z0-9_-]{43})\.([0-9a-f]{64})$/;

/** Parses a token of `diskmesh join-token create`. The error does not quote it, because it is secret. */
export function parseToken(text: string): ParsedToken {
  const [, tokenId, secret, fingerprint] = TOKEN.exec(text.trim()) ?? [];
  if (tokenId === undefined || secret === undefined || fingerprint === undefined)
    throw new InvalidArgumentError(
      "the join token is malformed: give the whole line that `diskmesh join-token create` has printed, dmj1. and what follows",
    );
  return { tokenId, secret, fingerprint };
}
