/* Profiles as files: read with diagnostics that point into them, compared with what they are used for. */
#ifndef FUSEC_TOOLS_PROFILE_FILE_H
#define FUSEC_TOOLS_PROFILE_FILE_H
#include "passes/kernel/profile.h"
#include "tools/fusec/cli.h"

typedef struct ProfileFile {
    const char *path;
    int file; /* of the session's diagnostics */
    Profile profile;
} ProfileFile;

/* NULL after errors, which are among the session's diagnostics. */
ProfileFile *profile_read(Session *s, const char *path);
/* Was it measured for this target?  Warns of what else may not fit. */
bool profile_suits(Session *s, const ProfileFile *p, const Target *t);
/* A line that does not fit: an error, or a warning. */
void profile_complain(Session *s, const ProfileFile *p, bool is_error, ProfileField f, const char *message,
                      const char *help);

#endif
