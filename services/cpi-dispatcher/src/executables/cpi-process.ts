import { randomBytes } from "node:crypto";
import { type CpiCall, InvalidCpiResponseError } from "@diskmesh/cpi";
import { DomainError, type JsonObject, Redactor, visible } from "@diskmesh/domain";
import { type CpiAnswer, LASTING, parseAnswer } from "../model/answers.js";
import { errorOfCpi } from "../model/cpi-errors.js";
import type { CpiMethod } from "../model/methods.js";
import { redactedRequest } from "../model/redacted-request.js";
import { requestContext, requestText } from "../model/request.js";
import type { AnswerBudget } from "./answer.js";
import { LineSplitter } from "./line-splitter.js";
import { type ExecutableLimits, type Output, runExecutable } from "./run-executable.js";
import type { RunFolder } from "./run-folder.js";

export interface CpiProcessOptions {
  /** The CPI's name, for messages. */
  readonly name: string;
  readonly execPath: string;
  readonly jobsFolder: string;
  /** The CPI's credentials and settings. */
  readonly properties: JsonObject;
  readonly limits: CpiLimits;
  readonly runFolder: RunFolder;
  readonly answerBudget: AnswerBudget;
}

interface CpiLimits extends Omit<ExecutableLimits, "timeoutMs" | "timeoutSetting"> {
  readonly callTimeoutMs: number;
  /** Time limit of info, which does no work. */
  readonly infoTimeoutMs: number;
  /** Time limit of create_stemcell, which copies an image. */
  readonly createStemcellTimeoutMs: number;
}

export interface CpiRequest {
  readonly method: CpiMethod;
  readonly args: readonly unknown[];
  /** Undefined for the info call that negotiates the version. */
  readonly apiVersion: number | undefined;
  /** The objects of the call, for errors. */
  readonly vmCid?: string;
  readonly diskCid?: string;
  /** Secret values of the request besides the CPI's properties. */
  readonly secrets?: JsonObject;
}

const MAX_SHOWN_LINE_LENGTH = 8_192;
const MAX_TYPE_LENGTH = 128;
/** Maximum characters shown of an invalid answer. */
const MAX_SHOWN_ANSWER_LENGTH = 500;

/**
 * Calls a CPI's executable. All text that leaves this class passes a redactor, so that no secret reaches a caller or
 * log.
 */
export class CpiProcess {
  readonly #options: CpiProcessOptions;
  readonly #redactor: Redactor;

  constructor(options: CpiProcessOptions) {
    this.#options = options;
    this.#redactor = new Redactor([options.properties]);
  }

  /**
   * Returns the CPI's result as `check` returns it; throws the CPI's error, or InvalidCpiResponseError. The log has the
   * beginning of an invalid answer.
   */
  async call<Result>(request: CpiRequest, call: CpiCall, check: (result: unknown) => Result): Promise<Result> {
    const { name, execPath, jobsFolder, properties, runFolder, answerBudget } = this.#options;
    const { method, args, apiVersion } = request;
    const limits = limitsOf(method, this.#options.limits);
    const redactor = request.secrets ? new Redactor([properties, request.secrets]) : this.#redactor;
    const say = (line: string, isCut = false) =>
      call.onLogLine(shown(visible(isCut ? redactor.beginning(line) : redactor.text(line))));
    // A new id that contains the task's request id. CPIs and the services that they call distinguish calls by it.
    const requestId = `${call.requestId}-${randomBytes(4).toString("hex")}`;
    const context = requestContext({ ...call, requestId }, properties);
    const shownRequest = redactedRequest(method, args, context, Object.keys(properties));
    say(`[${name}] ${JSON.stringify(shownRequest)}`);
    let output: Output;
    try {
      const request = requestText(method, args, context, apiVersion);
      const running = { execPath, jobsFolder, request, limits, runFolder, answerBudget };
      output = await runExecutable({ ...running, signal: call.signal, onLine: say });
    } catch (error) {
      throw error === call.signal.reason ? error : withCpi(error, name, method);
    }
    const { text, givenUp } = output;
    const valid = <Valid>(read: () => Valid): Valid => {
      try {
        return withCpiOn(name, method, read);
      } catch (error) {
        say(`[${name}] ${method} printed instead of a valid answer: ${beginningOf(text, redactor)}`);
        throw withOkToRetry(error, output);
      }
    };
    const answer = givenUp ? answerOfGivenUp(text, givenUp) : valid(() => parseAnswer(text));
    sayLog(answer.log, this.#options.limits, say);
    if (answer.error === undefined) return valid(() => check(answer.result));
    const error = {
      type: redactor.text(answer.error.type).slice(0, MAX_TYPE_LENGTH),
      message: redactor.text(answer.error.message),
      okToRetry: answer.error.okToRetry,
    };
    say(`[${name}] ${method} failed: ${error.type}: ${error.message}`);
    const { vmCid = "", diskCid = "" } = request;
    throw errorOfCpi(error, { cpi: name, method, requestId, vmCid, diskCid });
  }
}

/**
 * Returns a success that the CPI reported before it noticed the cancellation. Throws `givenUp` instead of the CPI's
 * error, because the cancellation may have caused that error.
 */
function answerOfGivenUp(text: string, givenUp: Error): CpiAnswer {
  try {
    const answer = parseAnswer(text);
    if (answer.error === undefined) return answer;
  } catch {
    // The process was ended while it wrote its answer.
  }
  throw givenUp;
}

/** Returns the beginning of an invalid answer as one line without secrets. */
function beginningOf(text: string, redactor: Redactor): string {
  const beginning = redactor.beginning(text.slice(0, MAX_SHOWN_ANSWER_LENGTH));
  return `${beginning.replaceAll("\n", "\\n")}${text.length > MAX_SHOWN_ANSWER_LENGTH ? "..." : ""}`;
}

/** Marks an invalid answer of a process that reported success, because a repeated call would probably get it again. */
function withOkToRetry(error: unknown, { exitCode }: Output): unknown {
  if (!(error instanceof InvalidCpiResponseError) || exitCode !== 0) return error;
  return new InvalidCpiResponseError(error.message, { cause: error, about: LASTING });
}

/** Runs a check of a CPI's answer. Adds the CPI and the method to the check's error. */
export function withCpiOn<Result>(cpi: string, method: CpiMethod, check: () => Result): Result {
  try {
    return check();
  } catch (error) {
    throw withCpi(error, cpi, method);
  }
}

function withCpi(error: unknown, cpi: string, method: CpiMethod): unknown {
  if (!(error instanceof DomainError)) return error;
  const suffix = ` (CPI '${cpi}', method '${method}')`;
  if (error.message.endsWith(suffix)) return error;
  error.message += suffix;
  return error;
}

function limitsOf(method: CpiMethod, limits: CpiLimits): ExecutableLimits {
  const { callTimeoutMs, infoTimeoutMs, createStemcellTimeoutMs } = limits;
  const ofMethod = (timeoutMs: number) => ({ ...limits, timeoutMs, timeoutSetting: undefined });
  if (method === "create_stemcell") return ofMethod(createStemcellTimeoutMs);
  if (method === "info" && infoTimeoutMs < callTimeoutMs) return ofMethod(infoTimeoutMs);
  return { ...limits, timeoutMs: callTimeoutMs, timeoutSetting: "executables.callTimeoutMs" };
}

/** Emits the log lines, truncated to the limits. */
function sayLog(
  log: string,
  { maxLogLineLength: maxLineLength, maxLogLength }: CpiLimits,
  say: (line: string, isCut: boolean) => void,
) {
  const lines = new LineSplitter({ maxLineLength, maxTotalLength: maxLogLength }, (line, isCut) => {
    if (line !== "") say(line, isCut);
  });
  // An extra character makes the splitter report the truncation.
  lines.write(Buffer.from(log.slice(0, maxLogLength + 1), "utf8"));
  lines.end();
}

function shown(line: string): string {
  return line.length > MAX_SHOWN_LINE_LENGTH ? `${line.slice(0, MAX_SHOWN_LINE_LENGTH)}...` : line;
}
