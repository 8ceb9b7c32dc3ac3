import type { InstanceUpdateOptions } from "@diskmesh/api/director";
import { NotImplementedError } from "@diskmesh/domain";
import type { HttpCall } from "../route.js";

export function updateOptionsOf({ query }: HttpCall): InstanceUpdateOptions {
  const skipped = query.get("skip_drain") ?? "";
  const skipDrain = skipped === "*" || skipped === "true";
  const isOfGroups = !skipDrain && skipped !== "" && skipped !== "false";
  return {
    skipDrain,
    skipDrainGroups: isOfGroups ? skipped.split(",").map((group) => group.trim()) : [],
    canaries: query.get("canaries") ?? "",
    maxInFlight: query.get("max_in_flight") ?? "",
    dryRun: query.get("dry_run") === "true",
  };
}

/** Throws NotImplementedError for a requested option that this director does not support. */
export function refuseOptions({ query }: HttpCall, names: readonly string[]): void {
  const asked = names.find((name) => !["", "false"].includes(query.get(name) ?? ""));
  if (asked === undefined) return;
  throw new NotImplementedError(`this director does not offer \`${asked}\`: run the command without it`);
}
