import type { DynamicDisk } from "@diskmesh/api/director";
import { InvalidArgumentError, MIB_BYTES } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { attachDisk } from "../handlers/attach-disk.js";
import { createDisk } from "../handlers/create-disk.js";
import { deleteDisk } from "../handlers/delete-disk.js";
import { detachDisk } from "../handlers/detach-disk.js";
import { listDisks } from "../handlers/list-disks.js";
import { provideDisk } from "../handlers/provide-disk.js";
import { formatInstance } from "../model/instance.js";
import { jsonList, toTask } from "./answer.js";
import { bodyObject, type Fields } from "./body.js";
import { pagesOf } from "./pages.js";
import type { Route } from "./route.js";

const MAX_SIZE_MIB = Math.floor(Number.MAX_SAFE_INTEGER / MIB_BYTES);

/** Whichever attachment there is: clients of these routes know of one only. */
const ANY_ATTACHMENT = { instanceId: "", attachmentId: "" };

export const diskRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/dynamic_disks",
    operation: "listDisks",
    serve: async ({ context, call, query }) => {
      const deployment = query.get("deployment") ?? "";
      const disks = pagesOf(
        (page) => listDisks(context, { ...page, deployment }, call),
        (response) => response.disks,
      );
      return jsonList(shown(context, disks));
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks",
    operation: "createDisk",
    serve: async ({ context, call, request }) => {
      const fields = bodyObject(request);
      const deployment = fields.text("deployment_name");
      const az = fields.text("az");
      const { task } = await createDisk(context, { ...wantedDisk(fields), deployment, az, wait: false }, call);
      return toTask(task?.taskId);
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/provide",
    operation: "provideDisk",
    serve: async ({ context, call, request }) => {
      const fields = bodyObject(request);
      const instanceId = fields.text("instance_id");
      const { task } = await provideDisk(context, { ...wantedDisk(fields), instanceId, wait: false }, call);
      return toTask(task?.taskId);
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/attach",
    operation: "attachDisk",
    serve: async ({ context, call, request, param }) => {
      const fields = bodyObject(request);
      const instanceId = fields.text("instance_id");
      const metadata = fields.optionalObject("metadata");
      const wanted = { diskName: param("name"), instanceId, metadata, wait: false };
      return toTask((await attachDisk(context, wanted, call)).task?.taskId);
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/detach",
    operation: "detachDisk",
    serve: async ({ context, call, param }) => {
      const wanted = { diskName: param("name"), ...ANY_ATTACHMENT, wait: false };
      return toTask((await detachDisk(context, wanted, call)).task?.taskId);
    },
  },
  {
    method: "DELETE",
    path: "/dynamic_disks/:name",
    operation: "deleteDisk",
    serve: async ({ context, call, param }) => {
      const diskName = await nameOf(context, param("name"));
      const { task } = await deleteDisk(context, { diskName, ...ANY_ATTACHMENT, wait: false }, call);
      return toTask(task?.taskId);
    },
  },
];

function wantedDisk(fields: Fields) {
  const diskName = fields.text("disk_name");
  const diskPoolName = fields.text("disk_pool_name");
  const sizeMib = fields.positive("disk_size");
  if (sizeMib > MAX_SIZE_MIB) throw new InvalidArgumentError(`'disk_size' is above ${MAX_SIZE_MIB} MB`);
  return { diskName, diskPoolName, sizeBytes: sizeMib * MIB_BYTES, metadata: fields.optionalObject("metadata") };
}

/** A name comes first; people also know a disk by what its CPI calls it. */
async function nameOf(context: Context, nameOrCid: string): Promise<string> {
  return context.tablet.read(({ disks }) => {
    if (disks.has(nameOrCid)) return nameOrCid;
    const [disk] = disks.by("byCid", nameOrCid);
    return disk?.name ?? nameOrCid;
  });
}

async function* shown(
  context: Context,
  pages: AsyncGenerator<readonly DynamicDisk[]>,
): AsyncGenerator<readonly object[]> {
  for await (const disks of pages) {
    const instances = await context.tablet.read((tables) =>
      disks.map(({ instanceId }) => tables.instances.get(instanceId)),
    );
    yield disks.map((disk, index) => {
      const instance = instances[index];
      return {
        name: disk.diskName,
        disk_cid: disk.diskCid,
        deployment: disk.deployment,
        instance: instance === undefined ? null : formatInstance(instance),
        availability_zone: disk.az,
        size: disk.sizeBytes / MIB_BYTES,
        disk_pool_name: disk.diskPoolName,
        cpi: disk.cpi,
        metadata: disk.metadata ?? {},
      };
    });
  }
}
