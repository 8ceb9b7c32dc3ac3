import type { PublishedDriver } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
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
    const found = await allPages(async (pageToken) => {
      const { drivers, nextPageToken } = await mesh.passthru.listDrivers({ nodeId, pageToken });
      return { items: drivers, nextPageToken };
    });
    output.list(COLUMNS, found, "no drivers");
  },
};
