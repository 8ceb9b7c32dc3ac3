import { ActionCode, type ActionResult, type AddHostResponse, AttachState, type Device } from "@diskmesh/api/registry";
import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { DEVICES_PER_HOST, HOSTS } from "../mesh/layout.js";
import { type Scene, waitFor } from "./scene.js";

const PAGE_SIZE = 100;

/** Calls AddHost for every host. */
export async function addHosts(scene: Scene): Promise<string> {
  const told: string[] = [];
  for (const { hostId } of HOSTS) {
    const code = await waitFor(scene, `${hostId} to register`, async () => {
      const result = await resultOf(scene.clients.registry.addHost({ hostId }));
      if (result?.code === ActionCode.S_OK || result?.code === ActionCode.S_ALREADY) return result.code;
      // The host's agent has not registered yet, or was last heard in an earlier run (E_TRY_AGAIN).
      if (result === undefined || result.code === ActionCode.E_TRY_AGAIN) return undefined;
      throw new InvalidStateError(`AddHost ${hostId}: ${result.code} ${result.message}`);
    });
    told.push(`${hostId} ${code.replace("ACTION_CODE_", "")}`);
  }
  return told.join(", ");
}

/** Resolves to undefined for an unknown host. */
async function resultOf(call: Promise<AddHostResponse>): Promise<ActionResult | undefined> {
  try {
    return (await call).result;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Waits until the agents hold every device. */
export async function devicesAttached(scene: Scene): Promise<string> {
  let missing: Device[] = [];
  const what = () => `all devices to be ATTACHED: ${missing.map(describeState).join("; ")}`;
  const devices = await waitFor(scene, what, async () => {
    const found = await listDevices(scene);
    missing = found.filter((device) => device.attachState !== AttachState.ATTACHED);
    return found.length >= HOSTS.length * DEVICES_PER_HOST && missing.length === 0 ? found : undefined;
  });
  const perHost = HOSTS.map(({ hostId }) => {
    const generations = devices.filter((device) => device.hostId === hostId).map((device) => device.deviceGeneration);
    return `${hostId} ${Math.min(...generations)} to ${Math.max(...generations)}`;
  });
  const [first] = devices;
  return `${devices.length} devices; tablet generation ${first?.tabletGeneration}, device generations ${perHost.join(", ")}`;
}

/** Waits until all devices are erased, because disks are created only on erased devices. */
export async function devicesErased(scene: Scene): Promise<string> {
  const devices = await waitFor(scene, "free devices to be erased", async () => {
    const found = await listDevices(scene);
    return found.every((device) => !device.dirty || device.diskId !== "") ? found : undefined;
  });
  return `${devices.filter((device) => device.diskId === "").length} devices free`;
}

function listDevices(scene: Scene): Promise<Device[]> {
  return allPages(async (pageToken) => {
    const request = { pageSize: PAGE_SIZE, pageToken };
    const { devices, nextPageToken } = await scene.clients.registry.listDevices(request);
    return { items: devices, nextPageToken };
  });
}

function describeState({ deviceId, attachState, lastError, healthMessage }: Device): string {
  return [deviceId, attachState, lastError, healthMessage].filter((part) => part !== "").join(" ");
}
