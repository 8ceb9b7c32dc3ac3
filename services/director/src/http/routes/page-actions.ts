import { ActionCode, type ActionResult, HostState } from "@diskmesh/api/registry";
import { countText, formatIdentity, NotFoundError, parseSpanText, shellWord } from "@diskmesh/domain";
import type { ActionAnswer } from "@diskmesh/page/rows";
import { durationOf, msOfDuration } from "@diskmesh/rpc";
import { askerOf } from "../../audit/asker.js";
import { cancelTask, getTask, resumeTask } from "../../tasks/handlers.js";
import { bodyObject, type Fields } from "../body.js";
import { BadRequestError } from "../http-error.js";
import { data } from "../page-answer.js";
import type { HttpCall, Route } from "../route.js";
import { deleteOrphanNow, forgetOrphanNow } from "./orphan-actions.js";
import { diskActions } from "./page-disk-actions.js";

const MAX_REASON_LENGTH = 500;

/** The actions of the page. The page calls each action first as a dry run. */
export const pageActions: readonly Route[] = [
  action("hosts/:name/state", "setHostState", setHostState, ({ name, state, why }) => {
    return `set-host-state ${state} ${name}${why}`;
  }),
  action("hosts/:name/maintenance", "setHostState", maintain, ({ name, why, fields }) => {
    return `maintenance ${name} --for ${fields.text("for")}${why}`;
  }),
  action("hosts/:name/fence", "fenceHost", fenceHost, ({ name, why }) => `fence-host ${name}${why}`),
  action("hosts/:name/remove", "removeHost", removeHost, ({ name }) => `remove-host ${name}`),
  action("hosts/:name/keep", "addHost", keepHost, ({ name }) => `add-host ${name}`),
  action("disks/:name/cancel-move", "cancelMove", cancelMove),
  action("disks/:name/migrate", "migrateDisk", migrate),
  action("tasks/:name/cancel", "cancelTask", cancelOne, ({ name }) => `cancel ${name}`),
  action("tasks/:name/resume", "resumeTask", resumeOne, ({ name }) => `resume ${name}`),
  action("orphans/:name/delete", "cleanUp", deleteOrphanNow, ({ name }) => `delete-orphan ${name}`),
  action("orphans/:name/forget", "forgetPossibleOrphan", forgetOrphanNow, ({ name }) => `forget-orphan ${name}`),
  ...diskActions.map(({ path, operation, act }) => action(path, operation, act)),
];

interface Wanted {
  readonly name: string;
  readonly isDry: boolean;
  /** Set when the client repeats a request that was accepted and not completed yet. */
  readonly isAgain: boolean;
  readonly reason: string;
  readonly state: string;
  /** The client's further fields. */
  readonly fields: Fields;
}

/** An action. One that returns lines alone has its command in the table of actions. */
type Act = (http: HttpCall, wanted: Wanted) => Promise<readonly string[] | Omit<ActionAnswer, "command">>;
type CommandOf = (wanted: Wanted & { readonly why: string }) => string;

/** Returns the route of an action. `commandOf` returns the operator's command that does the same, without its program. */
function action(path: string, operation: Route["operation"], act: Act, commandOf?: CommandOf): Route {
  const serve: Route["serve"] = async (http) => {
    const fields = bodyObject(http.request);
    const reason = fields.optionalText("reason") ?? "";
    if (reason.length > MAX_REASON_LENGTH)
      throw new BadRequestError(`the reason is longer than ${MAX_REASON_LENGTH} characters`);
    const wanted = {
      name: http.param("name"),
      isDry: fields.flag("dry_run"),
      isAgain: fields.has("again") && fields.flag("again"),
      reason,
      state: fields.optionalText("state") ?? "",
      fields,
    };
    const answer = await act(http, wanted);
    const why = reason === "" ? "" : ` --reason ${shellWord(reason)}`;
    const command = commandOf && { command: `diskmesh ${commandOf({ ...wanted, why })}` };
    return data({ ...("lines" in answer ? answer : { lines: answer }), ...command });
  };
  return { method: "POST", path: `/page/${path}`, operation, serve };
}

/** Prefixes the reason with the caller's identity, because the registry only sees the director as caller. */
const told = ({ call }: HttpCall, reason: string): string =>
  `${formatIdentity(call.identity)}${reason === "" ? "" : `: ${reason}`}`;

const HOST_STATES: Readonly<Record<string, HostState>> = {
  dead: HostState.DEAD,
  cordoned: HostState.CORDONED,
  online: HostState.ONLINE,
};

async function setHostState(http: HttpCall, { name, isDry, reason, state }: Wanted): Promise<readonly string[]> {
  const wanted = HOST_STATES[state];
  if (wanted === undefined) throw new BadRequestError("state must be dead, cordoned or online");
  if (state !== "online" && reason === "") throw new BadRequestError("the reason is missing: give a reason");
  const request = { hostIds: [name], state: wanted, reason: told(http, reason), dryRun: isDry };
  const answer = await http.context.registries.setHostState(request, http.call);
  if (answer.changedHostIds.length === 0) return [`${name} is already ${state}: nothing changes`];
  const { devices, disksOnDevices, publications, vms } = answer;
  if (state === "cordoned")
    return [`an operator cordons ${name}: it gets no new disk and no new VM`, "what is there stays"];
  const effect =
    state === "dead"
      ? `${countText(disksOnDevices, "disk")} with a part on its ${countText(devices, "device")} cannot be published while ${name} is dead`
      : `${name} is open to new disks and VMs; a host that was dead is unavailable until its agent registers`;
  const more = [
    `${countText(publications, "disk is", "disks are")} published to ${name}, and cannot be published elsewhere until ${name} is fenced`,
  ];
  return [`an operator marks ${name} as ${state}`, effect, ...more, vms > 0 ? `${name} is used as a VM` : ""].filter(
    Boolean,
  );
}

async function maintain(http: HttpCall, { name, isDry, reason, fields }: Wanted): Promise<readonly string[]> {
  if (reason === "") throw new BadRequestError("the reason is missing: give a reason");
  const span = fields.text("for");
  const duration = durationOf(parseSpanText(span, "for"));
  const request = {
    ...{ hostIds: [name], state: HostState.MAINTENANCE, reason: told(http, reason), duration, dryRun: isDry },
  };
  const { changedHostIds, publications } = await http.context.registries.setHostState(request, http.call);
  if (changedHostIds.length === 0) return [`${name} is already in such a maintenance: nothing changes`];
  return [
    `for at most ${span}, ${name} gets no new disk and no new VM, and its silence is no trouble and fences nothing`,
    `${countText(publications, "disk stays", "disks stay")} published to ${name}`,
    `the maintenance ends when ${name} is heard again after a silence, when the time has passed, or by "Mark as online"`,
  ];
}

async function fenceHost(http: HttpCall, { name, isDry, reason }: Wanted): Promise<readonly string[]> {
  const request = { hostId: name, reason: told(http, reason), dryRun: isDry };
  const { disks } = await http.context.registries.fenceHost(request, http.call);
  if (disks.length === 0) return [`${name} holds no disk: nothing changes`];
  return [
    `${countText(disks.length, "disk is", "disks are")} taken from ${name} for good; ${name} serves them again only after a new publish`,
    ...disks.slice(0, 20).map(({ diskId, complete, unaskedDeviceCount }) => {
      const waits = `${unaskedDeviceCount} of its devices have not answered yet`;
      return `${diskId}${isDry ? "" : complete ? ": done" : `: ${waits}`}`;
    }),
    ...(disks.length > 20 ? [`and ${disks.length - 20} more`] : []),
  ];
}

async function removeHost(http: HttpCall, wanted: Wanted): Promise<Omit<ActionAnswer, "command">> {
  const { name, isDry } = wanted;
  const result = await http.context.registries.removeHost({ hostId: name, dryRun: isDry }, http.call);
  await noteDeed(http, wanted, "remove", "host");
  return removalAnswer(result, isDry, [
    `${name} gets no disk and no VM any more; disks on its devices move to other hosts, then what was written to its devices is erased, and its agent closes them`,
    `to keep what is on them: diskmesh remove-host ${name} --keep-data`,
  ]);
}

async function keepHost(http: HttpCall, wanted: Wanted): Promise<Omit<ActionAnswer, "command">> {
  const { name, isDry } = wanted;
  const result = await http.context.registries.addHost({ hostId: name, dryRun: isDry }, http.call);
  await noteDeed(http, wanted, "add", "host");
  return removalAnswer(result, isDry, [`${name} stays in operation: its devices take disks again`]);
}

/**
 * Records an event that names the caller, for actions whose registry request has no reason field. A repeated request is
 * not recorded again.
 */
async function noteDeed(
  { context, call }: HttpCall,
  { name, isDry, isAgain }: Wanted,
  action: string,
  objectType: string,
): Promise<void> {
  if (isDry || isAgain) return;
  await context.events.record({ action, objectType, objectName: name }, { ...askerOf(call), answer: "OK" });
}

/** E_TRY_AGAIN means that the registry has noted the request and not completed it. */
function removalAnswer(
  { code, message, retryDelay, unerasedDeviceIds }: ActionResult,
  isDry: boolean,
  foreseen: readonly string[],
): Omit<ActionAnswer, "command"> {
  const isLater = code === ActionCode.E_TRY_AGAIN;
  if (isDry) return { lines: [...foreseen, isLater ? `for now it waits: ${message}` : message] };
  const unerased = unerasedDeviceIds.length > 0 ? [`not erased: ${unerasedDeviceIds.join(", ")}`] : [];
  return { lines: [message, ...unerased].filter(Boolean), ...(isLater && { againAfterMs: msOfDuration(retryDelay) }) };
}

/** Returns the user's name of a disk, which the command accepts; the CID of a disk without one. */
function nameOfDisk({ context }: HttpCall, cid: string): Promise<string> {
  return context.tablet.read((tables) => [...tables.disks.by("byCid", cid)][0]?.name ?? cid);
}

async function migrate(http: HttpCall, wanted: Wanted): Promise<ActionAnswer> {
  const { name: diskId, isDry, fields } = wanted;
  const { registries } = http.context;
  const hostId = fields.optionalText("to") ?? "";
  const name = await nameOfDisk(http, diskId);
  const to = hostId === "" ? "" : ` ${hostId}`;
  const { parts } = await registries.partsOfDisk(diskId);
  if (parts.length === 0) throw new NotFoundError(`no disk-registry of nodes.registries has disk ${name}`);
  if (!isDry) await registries.migrateDisk({ diskId, hostId }, http.call);
  await noteDeed(http, wanted, "migrate", "disk");
  return {
    lines: [
      `${countText(parts.length, "part")} of disk ${name} ${parts.length === 1 ? "moves" : "move"} to ${hostId === "" ? "other hosts" : `devices of host ${hostId}`}`,
      "it can be used meanwhile, and keeps its data; a move can be cancelled until it is done",
    ],
    command: `diskmesh migrate-disk ${name}${to}`,
  };
}

async function cancelMove(http: HttpCall, wanted: Wanted): Promise<ActionAnswer> {
  const { name, isDry } = wanted;
  const { registries } = http.context;
  const { parts } = await registries.partsOfDisk(name);
  const moving = parts.filter(({ move }) => move !== undefined).length;
  const command = `diskmesh cancel-move ${await nameOfDisk(http, name)}`;
  if (moving === 0) return { lines: [`no part of disk ${name} moves: nothing changes`], command };
  if (!isDry) await registries.cancelMove(name, http.call);
  await noteDeed(http, wanted, "cancel move", "disk");
  const lines = [
    `${countText(moving, "part")} of disk ${name} will not move; what is copied of the present part is given up`,
    "parts that have moved stay where they are now",
    "a removal of its host or device waits on, and moves the disk again once it is asked for again",
  ];
  return { lines, command };
}

async function cancelOne(http: HttpCall, { name, isDry }: Wanted): Promise<readonly string[]> {
  const taskId = Number(name);
  const { task } = await getTask(http.context, { taskId }, http.call);
  if (!isDry) await cancelTask(http.context, { taskId }, http.call);
  return [
    `task ${name} (${task?.description}) is asked to stop`,
    "its CPI calls are ended within seconds; completed work is kept",
  ];
}

async function resumeOne(http: HttpCall, { name, isDry }: Wanted): Promise<readonly string[]> {
  const taskId = Number(name);
  const { task } = await getTask(http.context, { taskId }, http.call);
  if (!isDry) await resumeTask(http.context, { taskId }, http.call);
  return [`task ${name} (${task?.description}) runs on`, "its progress since the backup is not known"];
}
