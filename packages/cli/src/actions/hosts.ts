import type { Host, HostState } from "@diskmesh/api/registry";
import { allPages } from "@diskmesh/rpc";
import { type Action, textOption } from "../action.js";
import { type Columns, short, timeText } from "../output.js";
import { hostState } from "../values.js";

const COLUMNS: Columns<Host> = {
  host: ({ hostId }) => hostId,
  state: ({ state }) => short(state),
  az: ({ az }) => az,
  rack: ({ rack }) => rack,
  vm: ({ assignment }) => assignment?.vmCid ?? "",
  heard: ({ lastHeartbeatAt }) => timeText(lastHeartbeatAt),
  message: messageOfHost,
};

export const hosts: Action = {
  usage: "hosts",
  summary: "the hosts of the fleet",
  options: [
    ["--az <az>", "those of this az only"],
    ["--state-is <state>", "those in this state only: online, warning, unavailable or dead"],
  ],
  example: "diskmesh hosts --state-is dead",
  run: async ({ mesh, output, options }) => {
    const az = textOption(options, "az");
    const state = textOption(options, "stateIs");
    const filter = { az, ...(state !== "" && { state: hostState(state) as HostState }) };
    const found = await allPages(async (pageToken) => {
      const { hosts: items, nextPageToken } = await mesh.registry.listHosts({ ...filter, pageToken });
      return { items, nextPageToken };
    });
    output.list(COLUMNS, found, "no such hosts");
  },
};

function messageOfHost({ suspected, removalRequested, saidDead, stateMessage }: Host): string {
  const notes = [
    suspected && "suspected",
    removalRequested && "to be removed",
    saidDead && `said dead by ${saidDead.by}: ${saidDead.reason}`,
    stateMessage,
  ];
  return notes.filter(Boolean).join("; ");
}
