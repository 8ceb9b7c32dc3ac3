import { type HostId, InvalidArgumentError, parseHostId, parseId } from "@diskmesh/domain";

/** Host of a publication; a VM is resolved in the transaction that decides. */
export type PublicationTarget = { readonly hostId: HostId } | { readonly vmCid: string };

/** Returns the named host or VM; undefined when the request names neither. */
export function parsePublicationTarget(request: {
  readonly hostId: string;
  readonly vmCid: string;
}): PublicationTarget | undefined {
  const { hostId, vmCid } = request;
  if (hostId !== "" && vmCid !== "")
    throw new InvalidArgumentError("host_id and vm_cid are both given: give only one of them", {
      about: { field: "vm_cid" },
    });
  if (vmCid !== "") return { vmCid: parseId("vm_cid", vmCid) };
  return hostId === "" ? undefined : { hostId: parseHostId(hostId) };
}
