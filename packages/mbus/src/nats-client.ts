/** A separate module, so that a service's bundle contains the client and does not search for it in many files. */
export { connect } from "nats";
