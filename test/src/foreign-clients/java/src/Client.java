import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import diskmesh.director.v1.ListTasksRequest;
import diskmesh.director.v1.TaskServiceGrpc;
import diskmesh.registry.v1.AddHostRequest;
import diskmesh.registry.v1.DiskRegistryServiceGrpc;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.protobuf.StatusProto;
import java.io.File;
import java.util.concurrent.TimeUnit;

/**
 * A client in Java, of what protoc-gen-grpc-java makes of proto/. Arguments: the addresses of a registry and a director, the
 * files of the authorities, the certificate and its key. Prints what it was answered as JSON.
 */
public final class Client {
  private static final long DEADLINE_SECONDS = 60;

  public static void main(String[] args) throws Exception {
    ChannelCredentials mutual =
        TlsChannelCredentials.newBuilder()
            .trustManager(new File(args[2]))
            .keyManager(new File(args[3]), new File(args[4]))
            .build();
    ManagedChannel registry = channelTo(args[0], mutual);
    ManagedChannel director = channelTo(args[1], mutual);
    var health = HealthGrpc.newBlockingStub(registry).withDeadlineAfter(DEADLINE_SECONDS, TimeUnit.SECONDS);
    var hosts = DiskRegistryServiceGrpc.newBlockingStub(registry).withDeadlineAfter(DEADLINE_SECONDS, TimeUnit.SECONDS);
    var tasks = TaskServiceGrpc.newBlockingStub(director).withDeadlineAfter(DEADLINE_SECONDS, TimeUnit.SECONDS);

    var serving = health.check(HealthCheckRequest.getDefaultInstance()).getStatus();
    var added = hosts.addHost(AddHostRequest.newBuilder().setHostId("host-1").build()).getResult().getCode();
    var listed = tasks.listTasks(ListTasksRequest.getDefaultInstance()).getTasksCount();

    String refused = "";
    String reason = "";
    String field = "";
    try {
      hosts.addHost(AddHostRequest.getDefaultInstance());
    } catch (StatusRuntimeException refusal) {
      refused = refusal.getStatus().getCode().name();
      for (Any detail : StatusProto.fromThrowable(refusal).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) reason = detail.unpack(ErrorInfo.class).getReason();
        if (detail.is(BadRequest.class)) field = detail.unpack(BadRequest.class).getFieldViolations(0).getField();
      }
    }
    System.out.printf(
        "{\"health\":\"%s\",\"added\":\"%s\",\"tasks\":%d,\"refused\":\"%s\",\"details\":{\"reason\":\"%s\",\"field\":\"%s\"}}%n",
        serving, added, listed, refused, reason, field);
    for (ManagedChannel channel : new ManagedChannel[] {registry, director})
      channel.shutdown().awaitTermination(DEADLINE_SECONDS, TimeUnit.SECONDS);
  }

  /** A machine that loses its network says nothing: keepalives find out. */
  private static ManagedChannel channelTo(String address, ChannelCredentials credentials) {
    return Grpc.newChannelBuilder(address, credentials).keepAliveTime(30, TimeUnit.SECONDS).build();
  }
}
