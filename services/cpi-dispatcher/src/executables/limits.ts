import { MIB_BYTES } from "@diskmesh/domain";

/** Times and sizes of each call of a CPI executable that no operator sets. */
export const EXECUTABLE_LIMITS = {
  /** Time for info, which does no work: a CPI that hangs in it is noticed soon. */
  infoTimeoutMs: 30_000,
  /** Time for create_stemcell, which copies an image, perhaps to another continent. */
  createStemcellTimeoutMs: 3_600_000,
  /** Time between SIGTERM and SIGKILL, in which a CPI whose call was cancelled may clean up. */
  cancelGraceMs: 2_000,
  /** Size of a request: what directors may send in a message. */
  maxRequestBytes: 4 * MIB_BYTES,
  /** Size of an answer. Beside its result it holds the CPI's log, of which `maxLogLength` are passed on. */
  maxAnswerBytes: 64 * MIB_BYTES,
  /** Lists and objects within each other in an answer: the parser must not run out of stack. */
  maxAnswerDepth: 64,
  /** Values in an answer, nested ones included: each costs more memory than its bytes. */
  maxAnswerValues: 200_000,
  /** Size of all answers that are being read. Of too many the longest is refused. */
  maxAnswersBytes: 256 * MIB_BYTES,
  /** Characters of a log line. The rest of the line is left out. */
  maxLogLineLength: 65_536,
  /**
   * Characters that are passed on of standard error, and of the log within the answer. The rest is left out. Short lines
   * count as 80.
   */
  maxLogLength: 4 * MIB_BYTES,
  /** Standard error is read no faster than this, so that a CPI that floods it takes no whole processor. */
  maxStderrBytesPerSecond: 2 * MIB_BYTES,
  /** Bytes on standard error. A CPI that writes more is killed. */
  maxStderrBytes: 32 * MIB_BYTES,
  /** Calls of one CPI that wait for their turn: a tenth of the calls that the server takes. */
  maxWaitingCalls: 1_000,
};
