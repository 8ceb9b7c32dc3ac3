import { AttachState, type Device, DeviceLabelState, IdentifiedBy } from "@diskmesh/api/registry";
import { allPages } from "@diskmesh/rpc";
import { type Columns, short, sizeText, troubleText } from "../../output/output.js";
import { attachState } from "../../output/values.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<Device> = {
  device: ({ deviceId }) => deviceId,
  host: ({ hostId }) => hostId,
  state: ({ attachState, removalRequested: isLeaving }) =>
    `${short(attachState)}${isLeaving && attachState !== AttachState.DETACHED ? ", to be removed" : ""}`,
  health: ({ health }) => short(health),
  size: ({ sizeBytes }) => sizeText(sizeBytes),
  free: ({ freeBytes }) => sizeText(freeBytes),
  identified: ({ identifiedBy, labelId }) => {
    if (identifiedBy === IdentifiedBy.UNSPECIFIED) return "";
    return identifiedBy === IdentifiedBy.NONE && labelId !== "" ? "LABEL" : short(identifiedBy);
  },
  pool: ({ pool }) => pool,
  generation: ({ deviceGeneration }) => deviceGeneration,
  disks: ({ diskId, diskCount }) => (diskCount > 1 ? diskCount : diskId),
  trouble: ({ trouble }) => troubleText(trouble),
};

const WIDE: Columns<Device> = {
  path: ({ path }) => path,
  offset: ({ offsetBytes }) => offsetBytes,
  slice: ({ sliceBytes }) => (sliceBytes === 0 ? "" : sizeText(sliceBytes)),
  "block size": ({ blockSizeBytes }) => blockSizeBytes,
  serial: ({ serialNumber }) => serialNumber,
  label: ({ labelState }) => (labelState === DeviceLabelState.UNSPECIFIED ? "" : short(labelState)),
};

export const devices: Action = {
  usage: "devices",
  summary: "list the devices of the fleet, or of a host",
  options: [
    ["--host <host-id>", "only devices of this host"],
    ["--pool <pool>", "only devices of this pool"],
    ["--state-is <state>", "only devices in this state: unknown, attaching, attached, closing or detached"],
  ],
  example: "diskmesh devices --host host-1",
  run: async ({ mesh, output, options }) => {
    const state = textOption(options, "stateIs");
    const filter = {
      hostId: textOption(options, "host"),
      pool: textOption(options, "pool"),
      ...(state !== "" && { attachState: attachState(state) as AttachState }),
    };
    const found = await allPages(async (pageToken) => {
      const { devices: items, nextPageToken } = await mesh.registry.listDevices({ ...filter, pageToken });
      return { items, nextPageToken };
    });
    // A wrong name is refused; a host without devices has an empty list.
    if (found.length === 0 && filter.hostId !== "") await mesh.registry.getHost({ hostId: filter.hostId });
    output.list(COLUMNS, found, "no such devices", WIDE);
  },
};
