import type { Fields } from "./document-server.js";

/** Why no tablet can be on a server that answers `buildInfo` so, and what to do; undefined: it may be one that can. */
export function unfitEngine({ ferretdbVersion }: Fields): string | undefined {
  // FerretDB 2 is built otherwise, and says who it is otherwise.
  if (typeof ferretdbVersion !== "string" || /^v?[2-9]/.test(ferretdbVersion)) return undefined;
  return `it is FerretDB ${JSON.stringify(ferretdbVersion.slice(0, 40))}, which lets two conditional writes win; use FerretDB 2 or MongoDB`;
}
