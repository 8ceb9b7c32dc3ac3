import { OrphanKind, type PossibleOrphan as WirePossibleOrphan } from "@diskmesh/api/director";
import type { PossibleOrphan } from "../store/possible-orphan.js";

export function encodePossibleOrphan({ sinceMs, cid = "", kind, ...orphan }: PossibleOrphan): WirePossibleOrphan {
  const wireKind = OrphanKind[kind.toUpperCase() as Uppercase<typeof kind>];
  return { ...orphan, kind: wireKind, cid, orphanTime: new Date(sinceMs) };
}
