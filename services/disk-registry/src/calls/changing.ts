import {
  formatIdentity,
  InvalidArgumentError,
  isOperator,
  isRefusal,
  messageOf,
  parseDeviceId,
  parseDiskId,
  parseHostId,
} from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { type Doing, IS_NOTED, noteWithoutChange, told } from "../model/events/events.js";
import { eventLimits } from "../requests/limits.js";
import type { ChangeContext, Context } from "./context.js";

type Change<Request, Response> = (context: ChangeContext, request: Request, call: CallContext) => Promise<Response>;
type Serve<Request, Response> = (context: Context, request: Request, call: CallContext) => Promise<Response>;

/**
 * Wraps a handler that changes state. Its transaction also stores an event with the caller and the RPC's name. A call
 * refused to an operator is stored as an event in its own transaction, unless it is a dry run. That event is marked as
 * routine, so that a script that retries does not evict other events.
 */
export function noted<Request extends object, Response>(
  action: string,
  change: Change<Request, Response>,
): Serve<Request, Response> {
  return async (context, request, call) => {
    const { tablet } = context;
    const doing = newDoing(action, call);
    let isParsed = false;
    const acting: ChangeContext = {
      ...context,
      doing,
      tablet: {
        read: (fn) => tablet.read(fn),
        transact: (fn) => {
          isParsed = true;
          return tablet.transact(fn, doing);
        },
      },
    };
    try {
      const response = await change(acting, request, call);
      if (doing.answer === "S_PARTLY") await refuse(context, request, doing);
      return response;
    } catch (error) {
      // Also records an InvalidArgumentError that the transaction throws: the argument is well formed, but contradicts
      // the tables.
      if (isRefusal(error) || (isParsed && error instanceof InvalidArgumentError)) {
        doing.answer = error.reason;
        doing.message = error.message;
        await refuse(context, request, doing);
      }
      throw error;
    }
  };
}

/**
 * Wraps a handler like `noted`, and refuses the call while another registry leads this fleet, because that registry
 * would not know the acknowledged change.
 */
export function changing<Request extends object, Response>(
  action: string,
  change: Change<Request, Response>,
): Serve<Request, Response> {
  const serve = noted(action, change);
  return async (context, request, call) => {
    context.fleet.requireLeads();
    return serve(context, request, call);
  };
}

/** Durably records that an operator took a backup. A backup copies all data and leaves no other trace. */
export async function noteBackup({ tablet, config, clock }: Context, call: CallContext): Promise<void> {
  const event = { ...told(newDoing("CreateBackup", call)), hostIds: [], deviceIds: [], diskIds: [] };
  await tablet.transact((tx) => noteWithoutChange(tx, event, eventLimits(config), clock.nowMs()), IS_NOTED);
}

function newDoing(action: string, { identity, requestId, traceId }: CallContext): Doing {
  const user = formatIdentity(identity);
  return {
    user,
    action,
    requestId,
    traceId,
    routine: !isOperator(identity.role),
    answer: "OK",
    message: "",
    eventId: 0,
  };
}

async function refuse({ tablet, config, clock, log }: Context, request: object, doing: Doing): Promise<void> {
  const isDryRun = "dryRun" in request && request.dryRun === true;
  if (isDryRun || doing.routine || doing.eventId !== 0) return;
  const event = { ...told(doing), ...thingsNamedIn(request), routine: true } as const;
  try {
    await tablet.transact((tx) => noteWithoutChange(tx, event, eventLimits(config), clock.nowMs()), IS_NOTED);
  } catch (error) {
    const { user, action, answer, requestId } = doing;
    log.warn({ user, action, answer, requestId, error: messageOf(error) }, "audit event write failed");
  }
}

/**
 * Collects the ids of hosts, devices and disks from a request, because these id fields have the same names in all
 * requests. Skips malformed values.
 */
function thingsNamedIn(request: object) {
  const named = request as Readonly<Record<string, unknown>>;
  const ids = <Id>(one: string, many: string, parse: (id: string) => Id): Id[] =>
    [named[one], ...(Array.isArray(named[many]) ? named[many] : [])].slice(0, 64).flatMap((id) => {
      try {
        return typeof id === "string" && id !== "" ? [parse(id)] : [];
      } catch {
        return [];
      }
    });
  return {
    hostIds: ids("hostId", "hostIds", parseHostId),
    deviceIds: ids("deviceId", "deviceIds", parseDeviceId),
    diskIds: ids("diskId", "diskIds", parseDiskId),
  };
}
