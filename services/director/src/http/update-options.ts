import type { InstanceUpdateOptions } from "@diskmesh/api/director";
import { NotImplementedError } from "@diskmesh/domain";
import type { HttpCall } from "./route.js";

/** How instances are updated, as a query says it. */
export function updateOptionsOf({ query }: HttpCall): InstanceUpdateOptions {
  const skipped = query.get("skip_drain") ?? "";
  if (!["", "*", "true", "false"].includes(skipped))
    throw new NotImplementedError("this director skips the drain of all instance groups or of none: give no names");
  return {
    skipDrain: skipped === "*" || skipped === "true",
    canaries: query.get("canaries") ?? "",
    maxInFlight: query.get("max_in_flight") ?? "",
  };
}

/** Throws for what is asked for and would not be done. */
export function refuseOptions({ query }: HttpCall, names: readonly string[]): void {
  const asked = names.find((name) => !["", "false"].includes(query.get(name) ?? ""));
  if (asked === undefined) return;
  throw new NotImplementedError(`this director does not offer \`${asked}\`: run the command without it`);
}
