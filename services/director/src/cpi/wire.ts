import type { PossibleOrphan as WirePossibleOrphan } from "@diskmesh/api/director";
import type { PossibleOrphan } from "../store/possible-orphan.js";

export function encodePossibleOrphan({ sinceMs, cid = "", ...orphan }: PossibleOrphan): WirePossibleOrphan {
  return { ...orphan, cid, since: new Date(sinceMs) };
}
