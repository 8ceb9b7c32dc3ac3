import { type HostId, InvalidArgumentError, parseHostId, parseId } from "@diskmesh/domain";

/** Where a disk is, or is to be, published; a VM is looked up with the state that is decided on. */
export type PublicationTarget = { readonly hostId: HostId } | { readonly vmCid: string };

/** Undefined when neither is named. */
export function parsePublicationTarget(request: {
  readonly hostId: string;
  readonly vmCid: string;
}): PublicationTarget | undefined {
  const { hostId, vmCid } = request;
  if (hostId !== "" && vmCid !== "")
    throw new InvalidArgumentError("host_id and vm_cid are both given: name the one that is meant", {
      about: { field: "vm_cid" },
    });
  if (vmCid !== "") return { vmCid: parseId("vm_cid", vmCid) };
  return hostId === "" ? undefined : { hostId: parseHostId(hostId) };
}
