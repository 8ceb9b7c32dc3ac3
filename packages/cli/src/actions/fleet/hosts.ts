import type { Host, HostState } from "@diskmesh/api/registry";
import { allPages } from "@diskmesh/rpc";
import { type Columns, short, timeText, troubleText } from "../../output/output.js";
import { hostState } from "../../output/values.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<Host> = {
  host: ({ hostId }) => hostId,
  state: ({ state, removalRequested, cordoned, maintenanceEndTime }) => {
    const closed = cordoned === undefined ? "" : ", cordoned";
    const work = maintenanceEndTime === undefined ? "" : `, in maintenance until ${timeText(maintenanceEndTime)}`;
    return `${short(state)}${removalRequested ? ", to be removed" : ""}${closed}${work}`;
  },
  az: ({ az }) => az,
  rack: ({ rack }) => rack,
  vm: ({ assignment }) => assignment?.vmCid ?? "",
  heard: ({ lastHeartbeatTime }) => timeText(lastHeartbeatTime),
  trouble: ({ trouble }) => troubleText(trouble),
};

const WIDE: Columns<Host> = {
  address: ({ address }) => address,
  "state since": ({ stateChangeTime }) => timeText(stateChangeTime),
  boot: ({ bootId }) => bootId,
};

export const hosts: Action = {
  usage: "hosts",
  summary: "list the hosts of the fleet",
  options: [
    ["--az <az>", "only hosts of this az"],
    ["--state-is <state>", "only hosts in this state: online, warning, unavailable, dead, cordoned or maintenance"],
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
    output.list(COLUMNS, found, "no such hosts", WIDE);
  },
};
