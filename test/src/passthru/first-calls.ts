import type { JsonObject } from "@diskmesh/domain";
import { NODE } from "./rows.js";

const nodeOf = (uuid: string): JsonObject => ({
  uuid,
  name: uuid,
  instance_uuid: null,
  power_state: null,
  provision_state: null,
  maintenance: false,
});
const detailsOf = (uuid: string): JsonObject => ({ ...nodeOf(uuid), reservation: null, last_error: null });
const DETAILS = { nodes: ["host-1", "host-2"].map(detailsOf) };
const NODES = { nodes: ["host-1", "host-2"].map(nodeOf) };
const NONE = { nodes: [] };
const notSupported = { result: null, reason: "nodes are hosts of diskmesh, which do not have this interface" };

/** Requests that clients of Ironic send, with the body of the answer. Addresses in answers begin at the path. */
export const FIRST_CALLS: readonly (readonly [path: string, answer: unknown])[] = [
  ["/v1/nodes/detail", DETAILS],
  ["/v1/nodes?detail=True", DETAILS],
  ["//v1/nodes", NODES],
  ["/v1/nodes?maintenance=False&associated=no", NODES],
  ["/v1/nodes?maintenance=True", NONE],
  ["/v1/nodes?provision_state=active", NONE],
  ["/v1/nodes?instance_uuid=9d1f&chassis_uuid=1", NONE],
  ["/v1/nodes?driver=sample", NODES],
  ["/v1/nodes?driver=other", NONE],
  ["/v1/nodes?sort_key=created_at&sort_dir=desc&fields=uuid", { nodes: [{ uuid: "host-2" }, { uuid: "host-1" }] }],
  ["/v1/nodes?fields=uuid,driver", { nodes: NODES.nodes.map(({ uuid }) => ({ uuid, driver: null })) }],
  [
    "/v1/nodes?fields=name&limit=1&driver=sample&sort_dir=desc",
    {
      nodes: [{ name: "host-2" }],
      next: "/v1/nodes?fields=name&limit=1&driver=sample&sort_dir=desc&marker=host-2",
    },
  ],
  ["/v1/nodes?fields=name&limit=1&driver=sample&sort_dir=desc&marker=host-2", { nodes: [{ name: "host-1" }] }],
  ["/v1/nodes/detail?limit=1", { nodes: [detailsOf("host-1")], next: "/v1/nodes/detail?limit=1&marker=host-1" }],
  [`/v1/nodes/${NODE}?fields=uuid,reservation`, { uuid: NODE, reservation: null }],
  [
    `/v1/nodes/${NODE}/validate`,
    {
      ...Object.fromEntries(
        "bios boot console deploy firmware inspect management network power raid rescue storage"
          .split(" ")
          .map((name) => [name, notSupported]),
      ),
      vendor: { result: true, reason: "" },
    },
  ],
  ["/v1/drivers/sample/properties", {}],
  ["/v1/ports", { ports: [] }],
  ["/v1/ports/detail?address=52%3A54%3A00%3Acf%3A2d%3A31", { ports: [] }],
];

const NO_CHANGE = "nodes are hosts of diskmesh, which clients of Ironic cannot change";

/** Requests that clients of Ironic send, with the refusal. */
export const REFUSED_CALLS: readonly (readonly [verb: string, path: string, status: number, text: string])[] = [
  ["GET", "/v1/nodes/nobody", 404, "Node nobody could not be found."],
  ["GET", "/v1/nodes/nobody/validate", 404, "Node nobody could not be found."],
  ["GET", "//v1/nodes/nobody", 404, "Node nobody could not be found."],
  ["GET", "/v1/nodes/a%20b", 400, "Expected UUID or name for node_ident: a b"],
  ["GET", "/v1/drivers/nope", 404, "The driver 'nope' is unknown."],
  ["GET", "/v1/drivers/nope/properties", 404, "The driver 'nope' is unknown."],
  ["GET", "/v1/nodes?bogus=1", 400, "Unexpected arguments: bogus"],
  ["GET", "/v1/nodes?maintenance=maybe", 400, "maintenance is neither true nor false"],
  ["GET", "/v1/nodes?sort_dir=up", 400, "sort_dir is neither asc nor desc"],
  ["GET", "/v1/nodes?fields=name,a%20b", 400, 'Field(s) "a b" are not valid'],
  ["GET", "/v1/allocations", 404, "Endpoint '/v1/allocations' not found."],
  ["DELETE", `/v1/nodes/${NODE}`, 405, NO_CHANGE],
  ["PATCH", `/v1/nodes/${NODE}`, 405, NO_CHANGE],
  ["DELETE", "/v1/nodes/nobody", 404, "Node nobody could not be found."],
  ["PATCH", "/v1/nodes/nobody", 404, "Node nobody could not be found."],
  ["DELETE", "/v1/nodes/a%20b", 400, "Expected UUID or name for node_ident: a b"],
  ["PUT", `/v1/nodes/${NODE}/maintenance`, 405, NO_CHANGE],
  ["POST", "/v1/nodes/nobody/vifs", 404, "Node nobody could not be found."],
  ["POST", "/v1/nodes", 405, NO_CHANGE],
  ["PUT", "/v1/drivers/sample", 405, NO_CHANGE],
  ["POST", "/v1/ports", 405, NO_CHANGE],
  ["DELETE", "/v1/ports/eth0", 404, "Endpoint '/v1/ports/eth0' not found."],
  ["POST", "/v1/chassis", 404, "Endpoint '/v1/chassis' not found."],
];
