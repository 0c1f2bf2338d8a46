import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Runs the statements of a script (no semicolons inside them) in a local Flink and waits for each INSERT. */
public class RunScript {
  public static void main(String[] args) throws Exception {
    Configuration configuration = new Configuration();
    for (int i = 1; i < args.length; i++) {
      String[] pair = args[i].split("=", 2);
      configuration.setString(pair[0], pair[1]);
    }
    TableEnvironment tables =
        TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
    for (String statement : Files.readString(Path.of(args[0])).split(";")) {
      if (statement.isBlank()) continue;
      var result = tables.executeSql(statement);
      if (statement.strip().startsWith("INSERT")) result.await();
    }
  }
}
