import type { Request, Settings } from "./protocol.js";

/** Agent settings in the bosh-registry, for CPI API version 1. */

type PersistentDisks = Settings["disks"]["persistent"];

/** Changes the disks in the VM's settings. */
export async function changeSettings(
  request: Request,
  vmCid: string,
  change: (disks: PersistentDisks) => PersistentDisks,
): Promise<void> {
  const settings = JSON.parse(await ask(request, vmCid, "GET")) as Settings;
  const disks = { ...settings.disks, persistent: change(settings.disks.persistent) };
  await putSettings(request, vmCid, { ...settings, disks });
}

export async function putSettings(request: Request, vmCid: string, settings: Settings): Promise<void> {
  await ask(request, vmCid, "PUT", settings);
}

export async function deleteSettings(request: Request, vmCid: string): Promise<void> {
  await ask(request, vmCid, "DELETE");
}

async function ask(request: Request, vmCid: string, method: string, settings?: Settings): Promise<string> {
  const { registry } = request.context;
  if (!registry) throw new Error("this CPI has no bosh-registry: its properties name none");
  const response = await fetch(`${registry.endpoint}/instances/${vmCid}/settings`, {
    method,
    headers: { authorization: `Basic ${Buffer.from(`${registry.user}:${registry.password}`).toString("base64")}` },
    ...(settings === undefined ? {} : { body: JSON.stringify(settings) }),
  });
  if (!response.ok) throw new Error(`the bosh-registry answered ${response.status} to ${method}`);
  return ((await response.json()) as { settings?: string }).settings ?? "";
}
