import { quoted } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";

/** Services with state to back up, keyed by the names that users may type. */
const STATEFUL = { registry: "disk-registry", "disk-registry": "disk-registry", director: "director" } as const;

export function statefulService(typed: string): "disk-registry" | "director" {
  if (Object.hasOwn(STATEFUL, typed)) return STATEFUL[typed as keyof typeof STATEFUL];
  throw new UsageError(`${quoted(typed)} has no state: give registry or director`);
}
