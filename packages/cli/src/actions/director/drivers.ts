import type { PublishedDriver } from "@diskmesh/api/director";
import { type Columns, short } from "../../output/output.js";
import type { Action } from "../action.js";

const COLUMNS: Columns<PublishedDriver> = {
  driver: ({ name }) => name,
  state: ({ state }) => short(state),
  package: ({ package: from }) => from,
  problem: ({ problem }) => problem,
};

export const drivers: Action = {
  usage: "drivers [host-id]",
  summary: "list vendors' drivers of a host, or of the director, with their packages and why a driver does not run",
  example: "diskmesh drivers host-1",
  run: async ({ mesh, output, args: [nodeId = ""] }) => {
    const { drivers: found } = await mesh.passthru.listDrivers({ nodeId });
    output.list(COLUMNS, found, "no drivers");
  },
};
