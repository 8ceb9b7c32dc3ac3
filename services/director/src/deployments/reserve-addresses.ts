import { instancesOf, ownerIn, takeAddresses } from "../instances/recorded-deployments.js";
import type { Ip } from "../specs/ip.js";
import { freeAddresses, type Subnet } from "../specs/subnets.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { FreeIn } from "../vms/networks.js";
import { networksOf } from "../vms/vm-spec.js";
import type { DeploymentJobContext } from "./context.js";

/**
 * Reserves addresses for all instances that need a VM, before any VM is made. Throws when a network has too few
 * addresses. The addresses of leaving instances count as free because leaving instances are deleted first; they stay
 * reserved until then.
 */
export function reserveAddresses(context: DeploymentJobContext, tx: DirectorTransaction, deployment: string): void {
  const leaving = instancesOf(tx, deployment).filter((instance) => instance.leaving);
  for (const { instanceId } of leaving) tx.instances.delete(instanceId);
  const ownerOf = ownerIn(tx);
  // A static address that another instance's VM still has is not reserved yet. That VM is deleted before this
  // instance's VM is made.
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

/**
 * Returns a function whose iterator per subnet continues after the last address tried, because all earlier addresses
 * are taken.
 */
function onceEach(): FreeIn {
  const places = new Map<Subnet, Iterable<Ip>>();
  return (subnet) => {
    const addresses = freeAddresses(subnet);
    // The iterator has no `return`, so a loop that ends early leaves the iterator open.
    const place = places.get(subnet) ?? { [Symbol.iterator]: () => ({ next: () => addresses.next() }) };
    places.set(subnet, place);
    return place;
  };
}
