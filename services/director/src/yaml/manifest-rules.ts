import type { Issue } from "./document.js";
import { addressesOf, type GroupDocument, type ManifestDocument, nicGroupOf } from "./manifest-document.js";

/** What a new manifest may not say, beside what its shape forbids. */
export function* issuesOf(manifest: ManifestDocument): Generator<Issue> {
  for (const [index, group] of (manifest.instance_groups ?? []).entries()) {
    const place = ["instance_groups", index];
    yield* defaultIssues(group, place);
    yield* staticIpIssues(group, place);
    for (const [at, { nic_group }] of (group.networks ?? []).entries()) {
      if (nicGroupOf(nic_group) !== undefined) continue;
      yield { path: [...place, "networks", at, "nic_group"], message: "give a whole number of at most nine digits" };
    }
  }
}

/** Of several networks one must say where names are resolved, and one where packets go that no other network takes. */
function* defaultIssues({ networks }: GroupDocument, place: readonly PropertyKey[]): Generator<Issue> {
  if (networks == null || networks.length < 2) return;
  const path = [...place, "networks"];
  for (const what of ["dns", "gateway", "addressable"] as const) {
    const names = networks.filter((network) => network.default?.includes(what)).map(({ name }) => `\`${name}\``);
    if (names.length > 1) yield { path, message: `only one can be the default for ${what}: ${names.join(", ")} are` };
    if (names.length === 0 && what !== "addressable")
      yield { path, message: `one of them must be the default for ${what}` };
  }
}

function* staticIpIssues({ networks, instances }: GroupDocument, place: readonly PropertyKey[]): Generator<Issue> {
  for (const [index, { static_ips }] of (networks ?? []).entries()) {
    if (static_ips == null || static_ips.length === 0) continue;
    const path = [...place, "networks", index, "static_ips"];
    const addresses = static_ips.flatMap(addressesOf);
    if (addresses.length !== instances)
      yield { path, message: `has ${addresses.length} addresses for ${instances} instances: give one for each` };
    if (new Set(addresses).size < addresses.length) yield { path, message: "has an address twice" };
  }
}
