import type { OwedRemoval as WireOwedRemoval } from "@diskmesh/api/director";
import type { OwedRemoval } from "../store/owed-removal.js";

export function encodeOwedRemoval({ sinceMs, ...owed }: OwedRemoval): WireOwedRemoval {
  return { ...owed, detachTime: new Date(sinceMs) };
}
