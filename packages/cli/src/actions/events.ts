import type { Event as DirectorEvent } from "@diskmesh/api/director";
import type { Event as RegistryEvent } from "@diskmesh/api/registry";
import { type Action, textOption } from "../action.js";
import { type Columns, timeText } from "../output.js";
import { countOf, timeOf } from "../values.js";

const OF_REGISTRY: Columns<RegistryEvent> = {
  time: ({ time }) => timeText(time),
  user: ({ user }) => user,
  action: ({ action }) => action,
  host: ({ hostIds }) => hostIds.join(" "),
  device: ({ deviceIds }) => deviceIds.join(" "),
  disk: ({ diskIds }) => diskIds.join(" "),
  answer: ({ answer }) => answer,
  message: ({ message }) => message,
};

const OF_DIRECTOR: Columns<DirectorEvent> = {
  time: ({ time }) => timeText(time),
  user: ({ user }) => user,
  action: ({ action }) => action,
  object: ({ objectType, objectName }) => `${objectType} ${objectName}`.trim(),
  task: ({ taskId }) => (taskId === 0 ? "" : taskId),
  deployment: ({ deployment }) => deployment,
  instance: ({ instance }) => instance,
  error: ({ error }) => error,
};

export const events: Action = {
  usage: "events",
  summary: "who did what, newest first: to hosts, devices and disks, or with --director to VMs and deployments",
  options: [
    ["--director", "the director's events instead of the registry's"],
    ["--host <host-id>", "of the registry, about this host"],
    ["--device <device-id>", "of the registry, about this device"],
    ["--disk <disk-id>", "of the registry, about this disk"],
    ["--deployment <name>", "of the director, about this deployment"],
    ["--user <name>", "by this user"],
    ["--action <action>", "of this action"],
    ["--after <time>", "since then: 15m, 2h, 7d or an instant"],
    ["--limit <count>", "at most so many, up to 1000 (100)"],
  ],
  example: "diskmesh events --host host-1 --after 2h",
  run: async ({ mesh, output, options }) => {
    const text = (name: string): string => textOption(options, name);
    const after = text("after");
    const common = {
      user: text("user"),
      action: text("action"),
      ...(after !== "" && { afterTime: timeOf(after, Date.now()) }),
      pageSize: countOf("limit", text("limit") || "100", 1_000),
    };
    if (options.director) {
      const { events: found } = await mesh.events.listEvents({ ...common, deployment: text("deployment") });
      output.list(OF_DIRECTOR, found, "no such events");
      return;
    }
    const about = { hostId: text("host"), deviceId: text("device"), diskId: text("disk") };
    const { events: found } = await mesh.registry.listEvents({ ...common, ...about });
    output.list(OF_REGISTRY, found, "no such events");
  },
};
