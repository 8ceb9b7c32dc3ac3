import { InvalidStateError } from "@diskmesh/domain";
import type { OwnerOf } from "../instances/recorded-deployments.js";
import { type CloudConfig, NO_AZ, networkNamed } from "../specs/cloud-config.js";
import type { GroupNetwork, GroupSpec, InstanceGroup } from "../specs/instance-group.js";
import { parseIp } from "../specs/ip.js";
import { isStatic, type Network, type Subnet, subnetOf, whyKept } from "../specs/subnets.js";
import { addressKey } from "../store/instance.js";

/**
 * Throws InvalidStateError when a group's networks have invalid defaults or static addresses, or when another
 * deployment uses a static address. An instance of the same deployment may use the address: it releases the address
 * first.
 */
export function checkNetworks(
  deployment: string,
  groups: readonly GroupSpec[],
  { networks }: CloudConfig,
  ownerOf: OwnerOf,
): void {
  const given = new Map<string, string>();
  for (const group of groups) {
    for (const use of group.networks) {
      const place = `instance group \`${group.name}\`, network \`${use.name}\``;
      const network = networkNamed(networks, use.name);
      checkUse(use, network, place);
      if (group.azs.includes(NO_AZ.name)) refuseAzs(network, place);
      for (const ip of use.staticIps) {
        const key = addressKey(use.name, ip);
        const other = given.get(key);
        if (other !== undefined) throw wrong(place, `static ip ${ip} also belongs to instance group \`${other}\``);
        given.set(key, group.name);
        const owner = ownerOf(use.name, ip);
        if (owner === undefined || owner.deployment === deployment) continue;
        throw wrong(place, `address ${ip} already belongs to an instance of deployment \`${owner.deployment}\``);
      }
    }
    withStaticAzs(group, networks);
  }
}

/** Throws for a group without azs in a network with azs, because the az of its instances would be undefined. */
function refuseAzs({ type, subnets }: Network, place: string): void {
  const [az] = type === "vip" ? [] : subnets.flatMap(({ azs }) => azs);
  if (az !== undefined)
    throw wrong(place, `its subnets are in azs, such as \`${az}\`: give the instance group azs, too`);
}

function checkUse(use: GroupNetwork, network: Network, place: string): void {
  if (network.type === "dynamic" && use.staticIps.length > 0)
    throw wrong(place, "a dynamic network has no static_ips: leave them out, or name a manual network");
  if (network.type === "vip") {
    if (use.staticIps.length === 0) throw wrong(place, "a vip network needs static_ips in the manifest");
    if (use.default.length > 0) throw wrong(place, "a vip network cannot be the default for anything");
  }
  if (network.type !== "manual") return;
  for (const ip of use.staticIps) {
    const subnet = subnetOf(network, ip);
    if (subnet === undefined) throw wrong(place, `static ip ${ip} is in no subnet of the network`);
    const reason = whyNotStatic(subnet, ip);
    if (reason !== "") throw wrong(place, `static ip ${ip} ${reason}`);
  }
}

function whyNotStatic(subnet: Subnet, ip: string): string {
  const address = parseIp(ip);
  const kept = whyKept(subnet, address);
  if (kept !== "") return `is ${kept}`;
  return isStatic(subnet, address) ? "" : "is not in `static` of its subnet: add it there in the cloud config";
}

/** Returns the group with the azs that the static addresses allow for each instance. */
export function withStaticAzs(group: GroupSpec, networks: readonly Network[]): InstanceGroup {
  const { name, instances, azs, migratedFrom } = group;
  const uses = group.networks.filter((use) => use.staticIps.length > 0);
  if (uses.length === 0) return { name, instances, azs, migratedFrom };
  const azsByIndex = Array.from({ length: instances }, (_, index) => {
    let left = azs;
    for (const use of uses) {
      const ip = use.staticIps[index];
      const network = networkNamed(networks, use.name);
      if (ip === undefined || network.type !== "manual") continue;
      const own = subnetOf(network, ip)?.azs ?? [];
      if (own.length > 0) left = left.filter((az) => own.includes(az));
      if (left.length > 0) continue;
      const place = `instance group \`${name}\`, network \`${use.name}\``;
      const where = own.map((az) => `\`${az}\``).join(", ");
      throw wrong(
        place,
        `static ip ${ip} of instance ${index} is in AZ ${where}, but the group or another of its networks places that instance in a different AZ`,
      );
    }
    return left;
  });
  return { name, instances, azs, migratedFrom, azsByIndex };
}

function wrong(place: string, text: string): InvalidStateError {
  return new InvalidStateError(`${place}: ${text}`);
}
