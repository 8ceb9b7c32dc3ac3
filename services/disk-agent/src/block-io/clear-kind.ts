import { ClearKind as WireKind } from "@diskmesh/api/internal";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { ClearKind } from "../devices/file-bytes.js";

const KINDS = new Map<ClearKind, WireKind>([
  ["discard", WireKind.DISCARD],
  ["zero", WireKind.ZERO],
  ["write zeros", WireKind.WRITE_ZEROS],
]);

export function encodeClearKind(kind: ClearKind): WireKind {
  return KINDS.get(kind) ?? WireKind.UNSPECIFIED;
}

export function decodeClearKind(wire: WireKind): ClearKind {
  for (const [kind, encoded] of KINDS) if (encoded === wire) return kind;
  throw new InvalidArgumentError(`kind ${wire} of clear is unknown`);
}
