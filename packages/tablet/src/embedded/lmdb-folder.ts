import { InvalidStateError } from "@diskmesh/domain";

/** Throws InvalidStateError for a folder in which an earlier release stored a tablet or an event log with LMDB. */
export function refuseLmdbFolder(folder: string, names: readonly string[], what: "tablet" | "event log"): void {
  if (!names.includes("data.mdb")) return;
  const cure =
    what === "tablet"
      ? "run the version that wrote it, make a backup with `diskmesh backup SERVICE FILE`, stop that version, and restore with this one: `diskmesh restore SERVICE FILE --config CONFIG --replace`, which keeps the folder under another name"
      : "it is history that no backup contains: move the folder away, and keep it for as long as somebody may ask for that history";
  throw new InvalidStateError(
    `the folder ${folder} holds data.mdb, the ${what} of an earlier diskmesh that this version cannot read: ${cure}`,
  );
}
