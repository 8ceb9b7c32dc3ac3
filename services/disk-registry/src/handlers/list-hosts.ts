import type { ListHostsRequest, ListHostsResponse } from "@diskmesh/api/registry";
import { parseHostId, parseId, parseOptionalName } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { describeHost } from "../requests/device-description.js";

export async function listHosts(context: Context, request: ListHostsRequest): Promise<ListHostsResponse> {
  const { tablet, config } = context;
  const az = parseOptionalName("az", request.az);
  const vmCid = request.vmCid === "" ? undefined : parseId("vm_cid", request.vmCid);
  const page = parsePage(request, config.paging, (key) => parseHostId(key, "page_token"));
  const found = await tablet.read(({ hosts }) => {
    const ofAz = () => (az === undefined ? hosts.entries(page) : hosts.by("byAz", az, page));
    const candidates = vmCid === undefined ? ofAz() : hosts.by("byVm", vmCid, page);
    return takePage(
      candidates,
      (host) => host.hostId,
      page,
      config.paging,
      (host) => az === undefined || host.az === az,
    );
  });
  const hosts = found.items.map((host) => describeHost(context, host));
  return { hosts, nextPageToken: found.nextPageToken };
}
