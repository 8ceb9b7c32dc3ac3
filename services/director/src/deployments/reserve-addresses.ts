import { instancesOf, ownerIn, takeAddresses } from "../instances/recorded-deployments.js";
import type { Ip } from "../specs/ip.js";
import { freeAddresses, type Subnet } from "../specs/subnets.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { FreeIn } from "../vms/networks.js";
import { networksOf } from "../vms/vm-spec.js";
import type { DeploymentJobContext } from "./context.js";

/**
 * Gives each instance that is to get a VM its addresses before any VM is made. Throws where a network has too few. What
 * leaving instances have counts as free, since they are deleted first, and stays theirs until then.
 */
export function reserveAddresses(context: DeploymentJobContext, tx: DirectorTransaction, deployment: string): void {
  const leaving = instancesOf(tx, deployment).filter((instance) => instance.leaving);
  for (const { instanceId } of leaving) tx.instances.delete(instanceId);
  const ownerOf = ownerIn(tx);
  // A static address may be another VM's, which is deleted before this one is made.
  const isFree = ([network, ip]: [string, string]) => (ownerOf(network, ip)?.vmState ?? "none") === "none";
  const freeIn = onceEach();
  for (const instance of instancesOf(tx, deployment)) {
    if (instance.vmState !== "none" || instance.state === "detached" || instance.ignore) continue;
    const { ips } = networksOf(context, tx, instance, freeIn);
    const reserved = { ...instance, ips: Object.fromEntries(Object.entries(ips).filter(isFree)) };
    takeAddresses(tx, reserved);
    tx.instances.put(reserved);
  }
  for (const instance of leaving) {
    takeAddresses(tx, instance);
    tx.instances.put(instance);
  }
}

/** Each subnet's addresses go on behind the last one that was looked at: all before it are taken by now. */
function onceEach(): FreeIn {
  const places = new Map<Subnet, Iterable<Ip>>();
  return (subnet) => {
    const addresses = freeAddresses(subnet);
    // The iterator has no `return`, so that a loop that ends early leaves it open.
    const place = places.get(subnet) ?? { [Symbol.iterator]: () => ({ next: () => addresses.next() }) };
    places.set(subnet, place);
    return place;
  };
}
