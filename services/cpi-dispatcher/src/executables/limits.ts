import { MIB_BYTES } from "@diskmesh/domain";

/** Time and size limits of each CPI call that are not configurable. */
export const EXECUTABLE_LIMITS = {
  /** Time limit of info, which does no work, so that a hanging CPI is detected soon. */
  infoTimeoutMs: 30_000,
  /** Time limit of create_stemcell, which copies an image, possibly between continents. */
  createStemcellTimeoutMs: 3_600_000,
  /** Time between SIGTERM and SIGKILL in which a cancelled CPI may clean up. */
  cancelGraceMs: 2_000,
  /** Maximum size of a request, equal to the message limit of directors. */
  maxRequestBytes: 4 * MIB_BYTES,
  /** Maximum size of an answer. The answer contains the CPI's log, of which `maxLogLength` characters are forwarded. */
  maxAnswerBytes: 64 * MIB_BYTES,
  /** Maximum nesting of an answer, because the parser must not exhaust the stack. */
  maxAnswerDepth: 64,
  /** Maximum values in an answer, nested values included, because a value costs more memory than its text. */
  maxAnswerValues: 200_000,
  /** Maximum size of all answers being read. Beyond it the longest answer is refused. */
  maxAnswersBytes: 256 * MIB_BYTES,
  /** Maximum characters of a log line; the rest is dropped. */
  maxLogLineLength: 65_536,
  /**
   * Maximum characters forwarded from standard error, and from the log in the answer. The rest is dropped. A short line
   * counts as 80 characters.
   */
  maxLogLength: 4 * MIB_BYTES,
  /** Read rate of standard error, so that a CPI that floods it does not occupy a CPU. */
  maxStderrBytesPerSecond: 2 * MIB_BYTES,
  /** Maximum bytes on standard error. A CPI that writes more is killed. */
  maxStderrBytes: 32 * MIB_BYTES,
  /** Maximum queued calls of a CPI: a tenth of the server's call limit. */
  maxWaitingCalls: 1_000,
};
